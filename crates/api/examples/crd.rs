//! Prints the CustomResourceDefinition as YAML; `cargo xtask crd` keeps it in `config/crd/`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::print_stdout, reason = "its output is the file")]
    println!("{}", serde_saphyr::to_string(&quorate_api::crd())?.trim_end());
    Ok(())
}
