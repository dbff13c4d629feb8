#!/bin/busybox sh
# PID 1 of the lab's guest. /host is the file system of the machine that runs the tests, read-only; a throw-away layer
# lies above it. /out is a folder there, writable. /out/command is then run as root, with its output in /out/log.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module"; done

mkdir -p /host /layer /new
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host
mount -t tmpfs tmpfs /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
mkdir -p /new/out /new/run /new/dev/shm /new/dev/pts
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /new/out
mount -t tmpfs tmpfs /new/run
mount -t tmpfs tmpfs /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
hostname lab
# Each CPU keeps free pages to itself, in all up to the low watermark twice: 2 % of nodes this small, and MemAvailable
# does not count them. A large host's share is smaller.
echo 1000 > /new/proc/sys/vm/percpu_pagelist_high_fraction

# What belongs to the other machine alone: marks of a container, a driver's library and tool.
rm -f /new/.dockerenv /new/usr/bin/nvidia-smi /new/usr/lib*/libnvidia-ml.so* /new/usr/lib*/*/libnvidia-ml.so*

cp -r /stand-ins /new/run/stand-ins
cd /new/run/stand-ins
for file in */*; do mount --bind "$file" "/new/sys/bus/pci/devices/$file"; done
cd /

# Where /out/units is, systemd becomes PID 1 with these units (and what is installed in the guest) alone.
if [ -d /new/out/units ]; then
  rm -rf /new/etc/systemd/system
  exec switch_root /new /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SYSTEMD_UNIT_PATH=/out/units:/etc/systemd/system SYSTEMD_GENERATOR_PATH=/nowhere \
    SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/nowhere /lib/systemd/systemd
fi

chroot /new /bin/sh /out/command > /new/out/log 2>&1
echo $? > /new/out/status
sync
echo o > /new/proc/sysrq-trigger
sleep 60
