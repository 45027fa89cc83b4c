#!/bin/sh
# Where no container engine runs: makes what the Dockerfile says in a folder, by mmdebstrap, and runs it there in namespaces.
# As root, or as a user who has ids in /etc/subuid.
set -eu
root=${1:?usage: root.sh FOLDER}
says() { sed -n "s/^$1 //p" Dockerfile; }
suite=$(says FROM | sed 's/^debian:\([a-z]*\).*/\1/')
packages=$(says RUN | sed 's/.*--no-install-recommends //; s/ /,/g')
work=$(says WORKDIR)
run=$(says CMD | tr -d '[],"')

# Files of packages are enough for what runs here: none is set up.
[ -d "$root" ] || mmdebstrap --quiet --variant=extract --include="dash,coreutils,$packages" "$suite" "$root"
says COPY | while read -r line; do
    to=$root${line##* }
    mkdir -p "$to"
    cp ${line% *} "$to"
done
mkdir -p "$root/proc" "$root/tmp" "$root/dev/shm"
touch "$root/dev/null"
exec unshare --user --map-root-user --mount --pid --fork --mount-proc="$root/proc" sh -euc '
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount --bind /dev/null "$1/dev/null"
    exec chroot "$1" sh -c "cd $2 && exec $3"' sh "$root" "$work" "$run"
