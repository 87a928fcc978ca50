# What a fence takes and which are strict; what a commit takes beside bare WRITEs, and a read beside bare READs.
. /lab/inside/common.sh
run ./ringleader bench fence
run ./ringleader bench commit --fabric verbs --samples 3000
run ./ringleader bench read --fabric verbs --samples 500
exit $failed
