//! Compiles the contracts without an outside `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files =
        ["common", "metadata", "session", "admin", "quorum"].map(|name| format!("proto/{name}.proto"));
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(&files, ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
