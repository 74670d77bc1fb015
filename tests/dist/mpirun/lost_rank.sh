#!/usr/bin/env bash
# A rank that dies, hangs, never starts (late) or ends (stay), aborts or throws must end the whole job, with a
# non-zero exit and no process left.
# pause: all ranks standing still for longer than the time limit is no loss, the job goes on.
# usage: lost_rank.sh kill|hang|pause|late|stay|abort|throw MPIRUN_COMMAND... TEST_PROGRAM
set -u
num_losses=1; [ -z "${QRL_LONG_TESTS:-}" ] || num_losses=100 # of each kind
mode=$1; shift
export QRL_LOSS=$mode
QRL_PID_DIR=$(mktemp -d); export QRL_PID_DIR
trap 'rm -rf "$QRL_PID_DIR"' EXIT
fail() { echo "FAILED: $*" >&2; kill "$job" 2>/dev/null; exit 1; }
# Ranks that nobody ends sleep for an hour: these two minutes assert no time.
expect_gone() { for _ in $(seq 1200); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done; fail "process $1 is left"; }
ends() { for _ in $(seq 1200); do kill -0 "$job" 2>/dev/null || return 0; sleep 0.1; done; return 1; }

case $mode in
  kill | hang | pause)
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
      kill -$signal "$sleeping"
      ends || fail "the job goes on without its second rank"
      expect_gone "$waiting"; expect_gone "$sleeping"
      wait "$job"; code=$?
      [ "$code" -ne 0 ] || fail "the job's exit code is 0"
      [ "$mode" = kill ] || grep -q 'rank 0 has waited 3 s for rank 1' "$QRL_PID_DIR/said" ||
        fail "nobody says who hangs: $(cat "$QRL_PID_DIR/said")"
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
    grep -q 'waited 3 s for the other ranks' "$QRL_PID_DIR/said" || fail "nobody says why: $(cat "$QRL_PID_DIR/said")"
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
