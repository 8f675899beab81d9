--@use clock
-- Counts for metrics, all in one hash of the partition, which store/metrics.py reads. The
-- script that changes something counts it: so the counts outlive every process, and a call that is
-- repeated is not counted twice.

-- The upper bounds of the buckets of a duration, in ms. A last bucket has what is longer.
local BOUNDS_MS = {100, 1000, 10000, 60000, 600000, 3600000, 86400000}

local function count(metrics, ...)
  redis.call('HINCRBY', metrics, table.concat({...}, ' '), '1')
end

-- Counts a duration in its bucket, and adds it to the sum.
local function observe(metrics, ms, ...)
  local bucket = #BOUNDS_MS + 1
  for n, bound in ipairs(BOUNDS_MS) do
    if ms <= bound then
      bucket = n
      break
    end
  end
  local name = table.concat({...}, ' ')
  redis.call('HINCRBY', metrics, name .. ' ' .. bucket, '1')
  if ms > 0 then
    redis.call('HINCRBY', metrics, name .. ' sum', string.format('%d', ms))
  end
end

-- Counts that a record leaves the state `source`, and how long it was in it. It was in the states
-- between for no time. plan = {machine, states: those that it enters, in order, ...}
local function count_moves(metrics, plan, source, since)
  for _, state in ipairs(plan.states) do
    count(metrics, 'transition', plan.machine, source, state)
    observe(metrics, now_ms - since, 'dwell', plan.machine, source)
    source, since = state, now_ms
  end
end

-- Counts that a record was created, and the states that it has entered in the same step.
local function count_creation(metrics, plan)
  count(metrics, 'transition', plan.machine, '-', plan.states[1])
  for n = 2, #plan.states do
    count(metrics, 'transition', plan.machine, plan.states[n - 1], plan.states[n])
    observe(metrics, 0, 'dwell', plan.machine, plan.states[n - 1])
  end
end

-- Adds what was spent, such as money and tokens, to the sums of a machine.
local function add_to_sums(metrics, machine, deltas)
  for name, amount in pairs(deltas) do
    redis.call('HINCRBY', metrics, 'sum ' .. machine .. ' ' .. name, amount)
  end
end

-- Notes that a record of a machine has ended now.
local function note_end(metrics, machine)
  redis.call('HSET', metrics, 'end ' .. machine, now)
end
