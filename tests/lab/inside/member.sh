# One node of a group whose others are in other machines (several.sh). Whoever leads after 20 of 60 seconds is cut off for ten.
. /lab/inside/common.sh
read -r node nodes < member
modprobe virtio_pci
modprobe virtio_net
sleep 1
ip address add 10.2.0.$node/24 dev eth0
ip link set eth0 up
rdma link add rxe9 type rxe netdev eth0
chmod 600 key
{
    echo 'group = "lab"'
    echo "node = $node"
    echo 'fabric = "verbs"'
    echo 'timing = "soft-roce"'
    echo 'ring = "4M"'
    echo 'control = "/tmp/control"'
    echo '[members]'
    for other in $(seq 1 "$nodes"); do echo "$other = \"10.2.0.$other:7400\""; done
    echo '[verbs]'
    echo 'key_file = "/lab/key"'
    echo 'device = "rxe9"'
} > node.toml
mkfifo lines
./ringleader run --config node.toml --applied /tmp/applied < lines 2>/tmp/log &
server=$!
exec 3> lines
status() { ./ringleader status --config node.toml --json 2>/dev/null; }
# Waits until a pattern is in the status, for two minutes.
until_status() {
    for _ in $(seq 1 120); do
        ! status | grep -q "$1" || return 0
        sleep 1
    done
    echo "lab: node $node never says $1"
    tail -n 30 /tmp/log
    exit 1
}
until_status '"formed"'
[ "$node" != 1 ] || run ./ringleader form --config node.toml --timeout 120
until_status '"formed":true'
for second in $(seq 1 60); do
    for line in $(seq 1 20); do echo "$node-$second-$line" >&3; done
    if [ "$second" = 20 ] && status | grep -q '"role":"leader"'; then
        echo "lab: node $node leads, and is cut off"
        ip link set eth0 down
        cut=1
    fi
    if [ "$second" = 30 ] && [ -n "${cut:-}" ]; then
        ip link set eth0 up
        echo "lab: node $node is back"
    fi
    sleep 1
done
# Machines on a busy host are not equally fast: each tells the others how far it is, and waits for them.
mkdir /tmp/told
httpd -p 8000 -h /tmp/told
# Waits until all nodes tell the same of something; $2 makes what this node tells.
together() {
    for _ in $(seq 1 240); do
        "$2" > /tmp/told/new
        mv /tmp/told/new "/tmp/told/$1"
        all=$(for other in $(seq 1 "$nodes"); do
            said=$(printf 'GET /%s HTTP/1.0\r\n\r\n' "$1" | nc -w 5 "10.2.0.$other" 8000 | tail -n 1)
            echo "${said:-not from $other}"
        done | sort | uniq -c)
        echo "$all" | grep -q "^ *$nodes " && return
        sleep 1
    done
    echo "lab: FAILED: node $node waits for the others: $1: $all"
    tail -n 30 /tmp/log
    exit 1
}
fed() { echo fed; }
sum() { echo "$(wc -l < /tmp/applied) entries: $(md5sum < /tmp/applied | cut -d ' ' -f 1)"; }
seen() { echo seen; }
together fed fed
together applied sum
echo "lab: applied $(sum)"
cut -d - -f 1 /tmp/applied | uniq -c | while read -r count of; do echo "lab: $count from node $of"; done
./ringleader status --config node.toml
# The others may still have to read from this one.
together seen seen
sleep 5
kill -TERM $server
wait $server || { tail -n 30 /tmp/log; failed=1; }
exit $failed
