#!/usr/bin/env bash
# Two hosts in one machine: network namespaces with a cable between them and host names of their own, so that mpirun
# starts its daemon on the other through a remote shell and MPI sends by TCP. Runs PROGRAM with one rank on each.
# Exits with 4 and says why where a namespace cannot be made (not root, a container without the capability), and fails
# when the ranks sent less than a MiB over the cable: then they met in some other way.
# usage: two_hosts.sh PROGRAM ARGUMENTS...
set -u
PATH=$PATH:/usr/sbin # where ip is, which not every user looks in
dir=$(mktemp -d)
hosts=()
trap 'kill "${hosts[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$dir"' EXIT
skip() { echo "SKIPPED: $*" >&2; exit 4; }
command -v mpirun >/dev/null || skip "no mpirun here (openmpi-bin)"
for tool in ip unshare nsenter; do command -v $tool >/dev/null || skip "no $tool here (iproute2, util-linux)"; done

# A host is a process that holds its namespaces; they and the cable go when it does.
for n in 1 2; do
  unshare --net --uts sh -c "hostname qrl-host-$n && echo made >'$dir/$n' && exec sleep infinity" 2>"$dir/error" & hosts+=($!)
  for _ in $(seq 1200); do [ -s "$dir/$n" ] && break; kill -0 $! 2>/dev/null || break; sleep 0.1; done
  [ -s "$dir/$n" ] || skip "no network namespace to be had: $(cat "$dir/error")"
done
on() { nsenter --target "${hosts[$1 - 1]}" --net --uts "${@:2}"; }
ip link add qrl-cable-1 netns "${hosts[0]}" type veth peer name qrl-cable-2 netns "${hosts[1]}" 2>"$dir/error" ||
  skip "no cable between them: $(cat "$dir/error")"
for n in 1 2; do
  on $n ip address add 10.77.7.$n/24 dev qrl-cable-$n && on $n ip link set qrl-cable-$n up && on $n ip link set lo up ||
    skip "the network of host $n does not come up"
  echo "10.77.7.$n slots=1" >>"$dir/hosts"
done
# What ssh is elsewhere: agent HOST COMMAND...
cat >"$dir/agent" <<EOF
#!/bin/sh
host=\$1; shift
case \$host in
  10.77.7.1) exec nsenter --target ${hosts[0]} --net --uts sh -c "\$*" ;;
  10.77.7.2) exec nsenter --target ${hosts[1]} --net --uts sh -c "\$*" ;;
esac
echo "no host \$host" >&2; exit 1
EOF
chmod +x "$dir/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none
on 1 mpirun --hostfile "$dir/hosts" -np 2 --map-by node --mca plm_rsh_agent "$dir/agent" \
  --mca oob_tcp_if_include 10.77.7.0/24 --mca btl_tcp_if_include 10.77.7.0/24 "$@"
code=$?
sent_bytes=$(on 1 ip -statistics link show qrl-cable-1 | awk '/TX:/ { getline; print $1 }')
echo "the first host sent $sent_bytes bytes over the cable"
[ "$code" -ne 0 ] || [ "$sent_bytes" -ge 1048576 ] || { echo "FAILED: less than a MiB" >&2; exit 1; }
exit "$code"
