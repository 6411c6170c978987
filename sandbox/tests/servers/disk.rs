//! Small disks.

use std::fs;
use std::io::ErrorKind;

use sandbox::servers::Disk;

#[test]
fn a_full_disk_takes_nothing_until_it_is_cleared_and_is_gone_when_dropped() {
    let disk = Disk::new(4 << 20).unwrap();
    let file = disk.path().join("file");
    fs::write(&file, [7; 100_000]).unwrap();
    disk.fill().unwrap();
    let refused = fs::write(disk.path().join("another"), [7; 8192]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert_eq!(fs::read(&file).unwrap().len(), 100_000);
    disk.clear().unwrap();
    fs::write(disk.path().join("another"), [7; 8192]).unwrap();
    let root = disk.path().to_owned();
    drop(disk);
    assert!(!root.exists());
}
