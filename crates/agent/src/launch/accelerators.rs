//! Which of a pod's accelerators a task of the queue sees.
//!
//! Owns: the variables by which vendors' libraries are told (`CUDA_VISIBLE_DEVICES` of NVIDIA,
//! `ROCR_VISIBLE_DEVICES` of AMD). Pure. How many a task has is the queue's business.

use crate::broker::inventory::Gpu;
use quorate_hostlist::IdSet;

/// No accelerator at all: libraries stop reading at what is no device.
const NONE: &str = "-1";

/// What a task is told: those of `given`, places in the pod's inventory, that are its share when `tasks`
/// tasks divide them in order. A vendor of whose accelerators the pod has none is not mentioned.
/// With `own_numbers` names are those that the variables had before (a nested instance), else numbers
/// count the vendor's devices that the pod has.
pub fn visible(
    gpus: &[Gpu],
    given: &IdSet,
    (local, tasks): (u32, u32),
    own_numbers: bool,
) -> Vec<(&'static str, String)> {
    let each = given.len() / tasks.max(1) as usize;
    let share: Vec<u32> = given.iter().skip(each * local as usize).take(each).collect();
    let mut variables = Vec::new();
    for (vendor, variable) in [("nvidia", "CUDA_VISIBLE_DEVICES"), ("amd", "ROCR_VISIBLE_DEVICES")]
    {
        let devices = gpus.iter().enumerate().filter(|(_, gpu)| gpu.vendor == vendor);
        let named: Vec<(usize, String)> = devices
            .enumerate()
            .map(|(number, (place, gpu))| match gpu.id.parse::<u32>() {
                Ok(_) if !own_numbers => (place, number.to_string()),
                _ => (place, gpu.id.clone()),
            })
            .collect();
        if named.is_empty() {
            continue;
        }
        let mine: Vec<String> = named
            .into_iter()
            .filter(|(place, _)| share.iter().any(|mine| *mine as usize == *place))
            .map(|(_, name)| name)
            .collect();
        let value = if mine.is_empty() { NONE.to_owned() } else { mine.join(",") };
        variables.push((variable, value));
    }
    variables
}

/// Those of a nested instance: what the variables name, of the vendors that the pod has.
pub fn within(gpus: &[Gpu], variable: &dyn Fn(&str) -> Option<String>) -> Vec<Gpu> {
    let mut seen = Vec::new();
    for (vendor, name) in [("nvidia", "CUDA_VISIBLE_DEVICES"), ("amd", "ROCR_VISIBLE_DEVICES")] {
        let (theirs, told) = (gpus.iter().filter(|gpu| gpu.vendor == vendor), variable(name));
        match told {
            None => seen.extend(theirs.cloned()),
            Some(text) if theirs.count() > 0 => seen.extend(
                text.split(',')
                    .map(str::trim)
                    .take_while(|id| !id.is_empty() && *id != NONE)
                    .map(|id| Gpu { vendor: vendor.into(), id: id.into() }),
            ),
            Some(_) => {}
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(list: &[(&str, &str)]) -> Vec<Gpu> {
        let gpu = |(vendor, id): &(&str, &str)| Gpu { vendor: (*vendor).into(), id: (*id).into() };
        list.iter().map(gpu).collect()
    }

    #[test]
    fn each_task_sees_its_own_and_no_other() {
        // Device files of a container keep their numbers; libraries count from 0.
        let pod = gpus(&[("nvidia", "4"), ("nvidia", "5"), ("nvidia", "6"), ("amd", "0")]);
        let given = "0-2".parse().unwrap();
        let see = |local, tasks| visible(&pod, &given, (local, tasks), false);
        let expect = |cuda: &str| {
            vec![("CUDA_VISIBLE_DEVICES", cuda.to_owned()), ("ROCR_VISIBLE_DEVICES", "-1".into())]
        };
        assert_eq!([see(0, 3), see(2, 3)], [expect("0"), expect("2")]);
        assert_eq!(see(0, 1), expect("0,1,2"));
        let none = visible(&pod, &IdSet::new(), (0, 1), false);
        assert_eq!(none, expect("-1"));
        assert_eq!(visible(&[], &IdSet::new(), (0, 1), false), []);
    }

    #[test]
    fn names_stay_names_and_an_instance_hands_on_what_it_was_given() {
        let pod = gpus(&[("nvidia", "GPU-8a5d"), ("nvidia", "MIG-71c0"), ("nvidia", "2")]);
        let seen = visible(&pod, &"1-2".parse().unwrap(), (0, 1), false);
        assert_eq!(seen, [("CUDA_VISIBLE_DEVICES", "MIG-71c0,2".to_owned())]);
        let variable = |name: &str| (name == seen[0].0).then(|| seen[0].1.clone());
        let inner = within(&pod, &variable);
        assert_eq!(inner, gpus(&[("nvidia", "MIG-71c0"), ("nvidia", "2")]));
        let task = visible(&inner, &"1".parse().unwrap(), (0, 1), true);
        assert_eq!(task, [("CUDA_VISIBLE_DEVICES", "2".to_owned())]);
        assert_eq!(within(&pod, &|_| Some("-1".into())), []);
        assert_eq!(within(&pod, &|_| None), pod);
    }
}
