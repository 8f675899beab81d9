-- Moves a family that cannot be forgotten yet behind those that can: the index only says what to look at next.
-- KEYS  ended index
-- ARGV  root's id, ms from now
-- Returns {word}
local now = redis.call('TIME')[1] * 1000
redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
return {'postponed'}
