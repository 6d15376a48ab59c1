use super::*;
use clap::CommandFactory;

fn parse(arguments: &[&str]) -> Result<Settings, String> {
    let image: &[&str] = match arguments.first() {
        Some(&"--agent-image") => &[],
        _ => &["--agent-image", "example/agent:1"],
    };
    let all = ["quorate-controller"].iter().chain(image).chain(arguments);
    Settings::try_parse_from(all).map_err(|error| error.to_string())
}

#[test]
fn defaults_are_those_of_the_help() {
    let settings = parse(&[]).unwrap();
    assert_eq!(settings.concurrency, 48);
    assert_eq!(settings.api_qps, 0);
    assert!(settings.options().choose_delivery);
    assert_eq!(settings.options().plan.agent_delivery, Delivery::Copy);
    let timing = settings.lease.timing().unwrap();
    assert_eq!(timing.duration, Duration::from_secs(15));
    assert_eq!(timing.renew_deadline, Duration::from_secs(10));
    assert!(settings.options().namespaces.is_empty());
}

#[test]
fn namespaces_are_a_set() {
    let settings = parse(&["--watch-namespaces", "hpc,lab", "--watch-namespaces", "hpc"]).unwrap();
    assert_eq!(settings.options().namespaces, ["hpc", "lab"]);
}

#[test]
fn the_agents_image_may_be_a_volume() {
    let settings = parse(&["--agent-delivery", "image"]).unwrap();
    assert_eq!(settings.options().plan.agent_delivery, Delivery::Image);
    assert!(!settings.options().choose_delivery);
}

#[test]
fn queues_can_be_closed_to_port_forwards() {
    assert!(parse(&[]).unwrap().options().plan.port_forward);
    let settings = parse(&["--outside-port-forward", "false"]).unwrap();
    assert!(!settings.options().plan.port_forward);
}

#[test]
fn every_flag_has_a_variable_of_its_name() {
    let mut command = Settings::command();
    command.build();
    let flags =
        command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"));
    for flag in flags {
        let long = flag.get_long().unwrap();
        let variable = format!("QUORATE_{}", long.replace('-', "_").to_uppercase());
        assert_eq!(flag.get_env().unwrap().to_str(), Some(variable.as_str()), "--{long}");
        assert!(flag.get_help().is_some(), "--{long} says nothing");
    }
}

#[test]
fn a_bad_value_names_the_flag_and_the_way_out() {
    let cases: [(&[&str], &str, &str); 12] = [
        (&["--watch-namespaces", "Lab"], "--watch-namespaces", "must be 1 to 63 of a-z"),
        (&["--agent-image", "a b"], "--agent-image", "must be an image reference"),
        (&["--agent-delivery", "mount"], "--agent-delivery", "auto, copy, image"),
        (&["--cluster-domain", "a..b"], "--cluster-domain", "each part between dots"),
        (&["--concurrency", "0"], "--concurrency", "1..=1024"),
        (&["--api-burst", "0"], "--api-burst", "1..=65535"),
        (&["--metrics-address", "8080"], "--metrics-address", "socket address"),
        (&["--lease-duration-seconds", "1"], "--lease-duration-seconds", "3..=3600"),
        (&["--log-format", "xml"], "--log-format", "text, json"),
        (&["--log-filter", "a=loud"], "--log-filter", "write a level such as `info`"),
        (&["--otlp-endpoint", "collector:4317"], "--otlp-endpoint", "must begin with http://"),
        (&["--otlp-endpoint", "https://a:4318"], "--otlp-endpoint", "inside the cluster"),
    ];
    for (arguments, flag, way_out) in cases {
        let error = parse(arguments).unwrap_err();
        assert!(error.contains(flag) && error.contains(way_out), "{arguments:?}: {error}");
    }
}

#[test]
fn the_agent_image_is_required() {
    let error = Settings::try_parse_from(["quorate-controller"]).unwrap_err().to_string();
    assert!(error.contains("--agent-image <IMAGE>"), "{error}");
}

#[test]
fn a_deadline_that_allows_two_leaders_is_refused() {
    let settings = parse(&["--lease-renew-deadline-seconds", "15"]).unwrap();
    let error = settings.lease.timing().unwrap_err().to_string();
    assert!(error.contains("must be less than the lease duration"), "{error}");
}

#[test]
fn the_help_is_whole() {
    let mut command = Settings::command();
    insta::assert_snapshot!(command.render_long_help());
}
