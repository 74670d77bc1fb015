// Owns the faults that a test can order from the stand-in for NCCL.
#pragma once

extern "C" {

/// Describes faults of the communicators that are made afterwards. A rank's calls count from 0: each end of a group and
/// each query for errors is one.
struct NcclFaults {
  unsigned seed = 0;
  int most_delay_us = 0;  ///< each call first sleeps for a random time up to this
  int lost_rank = -1;     ///< this rank goes away, as if killed, in its call number `lost_in`; −1: none
  int lost_in = 0;
};

/// Sets the faults, and the number of aborted communicators to 0.
void nccl_stand_in_set_faults(const NcclFaults* faults);
int nccl_stand_in_num_aborted();
/// Returns the number of sleeps since nccl_stand_in_set_faults.
int nccl_stand_in_num_delays();
}
