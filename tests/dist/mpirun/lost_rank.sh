#!/usr/bin/env bash
# A rank that dies, hangs, never starts (late) or ends (stay), aborts or throws must end the whole job, with a
# non-zero exit and no process left.
# pause: all ranks standing still for longer than the time limit is no loss, the job goes on.
# Only for ranks without mpirun (env QRL_TEST_RANKS=2): parent: the first process is killed, and the ranks with it;
# suspend: Ctrl-Z stops the ranks, and SIGCONT continues them.
# usage: lost_rank.sh kill|hang|pause|parent|suspend|late|stay|abort|throw COMMAND... TEST_PROGRAM
set -u
num_losses=1; [ -z "${QRL_LONG_TESTS:-}" ] || num_losses=100 # of each kind
mode=$1; shift
own=no; case "$*" in *QRL_TEST_RANKS*) own=yes ;; esac
export QRL_LOSS=$mode
QRL_PID_DIR=$(mktemp -d); export QRL_PID_DIR
trap 'rm -rf "$QRL_PID_DIR"' EXIT
fail() { echo "FAILED: $*" >&2; kill "$job" 2>/dev/null; exit 1; }
# Ranks that nobody ends sleep for an hour: these two minutes assert no time.
expect_gone() { for _ in $(seq 1200); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done; fail "process $1 is left"; }
expect_state() { for _ in $(seq 1200); do case $(cut -d' ' -f3 "/proc/$1/stat") in $2) return 0 ;; esac; sleep 0.1; done; fail "process $1 is not in state $2"; }
ends() { for _ in $(seq 1200); do kill -0 "$job" 2>/dev/null || return 0; sleep 0.1; done; return 1; }

case $mode in
  kill | hang | pause | parent | suspend)
    signal=KILL; [ "$mode" = kill ] || signal=STOP
    for _ in $(seq "$num_losses"); do
      rm -f "$QRL_PID_DIR"/*
      "$@" '[.wait]' >"$QRL_PID_DIR/said" 2>&1 & job=$!
      for _ in $(seq 1200); do [ -s "$QRL_PID_DIR/1" ] && [ -s "$QRL_PID_DIR/0" ] && break; sleep 0.1; done
      read -r waiting <"$QRL_PID_DIR/0" && read -r sleeping <"$QRL_PID_DIR/1" || fail "the ranks did not start"
      sleep 0.5
      kill -0 "$waiting" && kill -0 "$sleeping" || fail "the ranks did not wait for each other"
      if [ "$mode" = pause ]; then
        kill -STOP "$waiting" "$sleeping"; sleep 12; kill -CONT "$waiting" "$sleeping"; sleep 1
        kill -0 "$waiting" && kill -0 "$sleeping" || fail "a pause ended the job: $(cat "$QRL_PID_DIR/said")"
        kill "$job"; wait "$job"; echo "the job went on after a pause"; exit 0
      fi
      if [ "$mode" = suspend ]; then
        kill -TSTP "$job"; expect_state "$waiting" T; expect_state "$sleeping" T; expect_state "$job" T
        kill -CONT "$job"; expect_state "$waiting" [RS]; expect_state "$sleeping" [RS]; sleep 1
        kill -0 "$waiting" && kill -0 "$sleeping" || fail "a suspension ended the job: $(cat "$QRL_PID_DIR/said")"
        kill "$job"; expect_gone "$waiting"; expect_gone "$sleeping"; wait "$job"; code=$?
        [ "$code" -eq 143 ] || fail "exit code $code, not that of SIGTERM"
        ! grep 'the job ends here' "$QRL_PID_DIR/said" || fail "it takes the user's signal for a lost rank"
        echo "the job was suspended, went on, and ended by SIGTERM"; exit 0
      fi
      if [ "$mode" = parent ]; then
        kill -KILL "$job"; expect_gone "$waiting"; expect_gone "$sleeping"; wait "$job"; code=$?; continue
      fi
      kill -$signal "$sleeping"
      ends || fail "the job goes on without its second rank"
      expect_gone "$waiting"; expect_gone "$sleeping"
      wait "$job"; code=$?
      [ "$code" -ne 0 ] || fail "the job's exit code is 0"
      [ "$mode" = kill ] || grep -q 'rank 0 has waited 3 s for rank 1' "$QRL_PID_DIR/said" ||
        fail "nobody says who hangs: $(cat "$QRL_PID_DIR/said")"
      [ "$mode/$own" != kill/yes ] || grep -q 'rank 1 was ended by signal 9 (Killed): the job ends here' "$QRL_PID_DIR/said" ||
        fail "nobody says who was killed: $(cat "$QRL_PID_DIR/said")"
      [ "$mode/$own" != kill/yes ] || [ "$code" -eq 137 ] || fail "exit code $code, not the 137 of a killed process"
    done
    ;;
  late | stay)
    QRL_JOIN_TIMEOUT_S=3 "$@" "[.$mode]" >"$QRL_PID_DIR/said" 2>&1 & job=$!
    ends || fail "the job goes on"
    for rank in 0 1; do
      read -r process <"$QRL_PID_DIR/$rank" || fail "rank $rank did not start"
      expect_gone "$process"
    done
    wait "$job"; code=$?
    who='the other ranks'; [ $own = no ] || who='rank [01]: a rank or its machine hangs'
    grep -q "waited 3 s for $who" "$QRL_PID_DIR/said" || fail "nobody says why: $(cat "$QRL_PID_DIR/said")"
    ;;
  abort | throw)
    "$@" "[.$mode]" & job=$!
    ends || fail "the job goes on"
    wait "$job"; code=$?
    ;;
esac
[ "$code" -ne 0 ] || fail "the job's exit code is 0"
[ "$mode" != abort ] || [ "$code" -eq 75 ] || fail "exit code $code, not the 75 that was asked for"
echo "the job ended with exit code $code and left nothing"
