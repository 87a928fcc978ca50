# What a fence takes and which are strict; what a commit takes beside bare WRITEs.
. /lab/inside/common.sh
run ./ringleader bench fence
run ./ringleader bench commit --fabric verbs --samples 3000
exit $failed
