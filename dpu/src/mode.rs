//! In which mode a BlueField is. In *DPU mode* its Arm side owns the embedded switch, whose ports are network devices there
//! (representors); in *NIC mode* the host does, and the Arm side can neither reach it nor cut it off ("BlueField Modes of
//! Operation", NVIDIA's documentation of the BlueField BSP). A machine without a BlueField is as good as any.

use std::fs;
use std::path::Path;

/// Mellanox.
const VENDOR: &str = "0x15b3";
/// BlueField, BlueField-2, -3 and -4: the network functions, as in the table of Linux' mlx5 driver
/// (drivers/net/ethernet/mellanox/mlx5/core/main.c).
const DEVICES: [&str; 4] = ["0xa2d2", "0xa2d6", "0xa2dc", "0xa2df"];

/// An error when this is the Arm side of a BlueField in NIC mode: why, and what to change. `sys` is where sysfs is.
pub fn check(sys: &Path, arch: &str) -> Result<(), String> {
    let functions = bluefields(sys);
    // On the host a BlueField is an adapter in either mode.
    let Some(first) = functions.first().filter(|_| arch == "aarch64") else { return Ok(()) };
    if functions.iter().any(|function| is_switch(&sys.join("bus/pci/devices").join(function))) {
        return Ok(());
    }
    Err(format!(
        "this BlueField ({first}) is in NIC mode: no function of it is a port of the embedded switch, which belongs to the host, so the \
         host could be neither reached nor cut off from here. Set DPU mode (mlxconfig -d {first} set INTERNAL_CPU_OFFLOAD_ENGINE=0) and \
         power-cycle the machine"
    ))
}

/// The PCI addresses of a BlueField's network functions, in order.
fn bluefields(sys: &Path) -> Vec<String> {
    let word = |path: &Path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let devices = fs::read_dir(sys.join("bus/pci/devices")).into_iter().flatten().flatten();
    let ours = devices.filter(|device| {
        let path = device.path();
        word(&path.join("vendor")) == VENDOR && DEVICES.contains(&word(&path.join("device")).as_str())
    });
    let mut names: Vec<String> = ours.filter_map(|device| device.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Whether a network device of that function is a port of a switch: reading the switch's id fails for any other
/// (Documentation/ABI/testing/sysfs-class-net, `phys_switch_id`).
fn is_switch(function: &Path) -> bool {
    let nets = fs::read_dir(function.join("net")).into_iter().flatten().flatten();
    nets.map(|net| fs::read_to_string(net.path().join("phys_switch_id")))
        .any(|id| id.is_ok_and(|id| !id.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sysfs with one function, and its network device.
    fn sysfs(device: &str, switch_id: Option<&str>) -> tempfile::TempDir {
        let sys = tempfile::tempdir().expect("a directory");
        let function = sys.path().join("bus/pci/devices/0000:03:00.0");
        let net = function.join("net/p0");
        fs::create_dir_all(&net).expect("made");
        fs::write(function.join("vendor"), "0x15b3\n").expect("written");
        fs::write(function.join("device"), format!("{device}\n")).expect("written");
        if let Some(id) = switch_id {
            fs::write(net.join("phys_switch_id"), format!("{id}\n")).expect("written");
        }
        sys
    }

    #[test]
    fn a_bluefield_in_nic_mode_is_refused_with_what_to_do() {
        for device in DEVICES {
            let said = check(sysfs(device, None).path(), "aarch64").expect_err("NIC mode");
            assert!(
                said.contains("NIC mode")
                    && said.contains("mlxconfig -d 0000:03:00.0 set INTERNAL_CPU_OFFLOAD_ENGINE=0"),
                "{said}"
            );
        }
        check(sysfs("0xa2dc", Some("")).path(), "aarch64").expect_err("no id");
    }

    #[test]
    fn a_bluefield_in_dpu_mode_its_host_and_everything_else_are_well() {
        check(sysfs("0xa2dc", Some("8e4f6a0003a1420c")).path(), "aarch64").expect("DPU mode");
        check(sysfs("0xa2dc", None).path(), "x86_64").expect("the host");
        check(sysfs("0x101d", None).path(), "aarch64").expect("a ConnectX-6 Dx");
        check(tempfile::tempdir().expect("a directory").path(), "aarch64").expect("nothing");
    }
}
