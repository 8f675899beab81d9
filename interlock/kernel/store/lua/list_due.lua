--@use clock
-- Lists the members of an index that are due. Polling them decides what becomes of each.
-- KEYS     effects or timers
-- ARGV     how many at most
-- Returns  {member, ...}
local index = KEYS[1]
local limit = ARGV[1]

return redis.call('ZRANGE', index, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
