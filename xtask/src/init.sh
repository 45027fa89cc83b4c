#!/bin/busybox sh
# First process of the emulated machine: brings up Soft-RoCE on a dummy interface, runs the program,
# and ends the machine with its exit code.

/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

# qemu's debug-exit device: one byte to port 0xf4.
end() {
    printf "\\$(printf %03o "$1")" | dd of=/dev/port bs=1 seek=244 count=1 2>/dev/null
    sleep 10
}
give_up() {
    echo "the machine could not be set up: $1"
    end 125
}

ulimit -l unlimited
while read -r module; do
    insmod "/modules/$module" || give_up "insmod $module"
done </modules/order

# By path: busybox has an ip of its own, which knows less.
ip=$(ls /usr/bin/ip /usr/sbin/ip /sbin/ip 2>/dev/null | head -n 1)
rdma=$(ls /usr/bin/rdma /usr/sbin/rdma /sbin/rdma 2>/dev/null | head -n 1)
$ip link set lo up
# Room for packets of the largest RDMA MTU.
$ip link set dummy0 mtu 4200 up || give_up "ip link"
$ip address add 10.0.0.1/24 dev dummy0 || give_up "ip address"
$rdma link add rxe0 type rxe netdev dummy0 || give_up "rdma link add"

# The second GID is that of the address just given; before it appears it reads as zeros.
tries=0
until grep -q '[1-9a-f]' /sys/class/infiniband/rxe0/ports/1/gids/1 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || give_up "no GID"
    usleep 50000
done

# The kernel hands on those of its own arguments that it does not know.
set --
while read -r argument; do
    set -- "$@" "$argument"
done </arguments
/native-test "$@"
code=$?
for program in /calls/*; do
    [ -x "$program" ] || continue
    "$program" soft-roce || code=1
done
# The device takes seven bits; higher codes are those of signals.
if [ $code -gt 127 ]; then
    echo "the program was ended by signal $((code - 128))"
    code=127
fi
end $code
