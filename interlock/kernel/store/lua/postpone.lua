--@use clock
-- Moves a family that cannot be pruned yet behind the families that can: the ended index only says
-- what to try next.
-- KEYS     ended index
-- ARGV     id of the root, ms from now
-- Returns  {status}: postponed
local ended_index = KEYS[1]
local root = ARGV[1]
local delay_ms = tonumber(ARGV[2])

redis.call('ZADD', ended_index, 'XX', now_ms + delay_ms, root)
return {'postponed'}
