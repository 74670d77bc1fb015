// Defines a toy task as a user would add one: write a word backwards.
#pragma once

#include "tasks/task.h"

namespace qrl::test {

extern const tasks::Task reverse_task;

}  // namespace qrl::test
