-- Sets the caps that a plan gives for the tree of a record; the others stay as they are.
local function set_limits(counters, plan)
  for name, cap in pairs(plan.caps or {}) do
    redis.call('HSET', counters, 'cap.' .. name, cap)
  end
end
