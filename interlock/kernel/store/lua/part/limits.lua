-- Sets the caps that are given for the tree of a record; the others stay as they are.
local function set_limits(counters, caps)
  for name, cap in pairs(caps or {}) do
    redis.call('HSET', counters, 'cap.' .. name, cap)
  end
end
