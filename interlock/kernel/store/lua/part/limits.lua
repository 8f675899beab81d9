-- Sets the limits that a plan gives for the tree of a record; the others stay as they are.
local function set_limits(counters, plan)
  if plan.cap then
    redis.call('HSET', counters, 'cap', plan.cap)
  end
  if plan.runs_max then
    redis.call('HSET', counters, 'most', plan.runs_max)
  end
end
