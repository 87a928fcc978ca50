# Rounds of chaos on verbs: processes killed, stopped and started anew, members and leaders changed, what was told judged. First
# all nodes on one device, then half as many rounds over real packets.
. /lab/inside/common.sh
rounds=2
[ ! -e rounds ] || read -r rounds < rounds
run ./chaos --fabric verbs --rounds "$rounds" --keep /tmp
fleet 5
run ./chaos --fabric verbs --rounds $(((rounds + 1) / 2)) --keep /tmp $devices
[ "$failed" = 0 ] || for log in /tmp/ringleader-chaos-*/*.log; do echo "-- $log"; tail -n 12 "$log"; done
exit $failed
