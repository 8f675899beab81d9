--@use clock
-- Keeps what a computer or a process says of itself, in place of what it said before, and when it
-- said so. What those said that have been silent for too long is removed.
-- KEYS     facts, announced
-- ARGV     name, said*, silence_ms
-- Returns  {'kept'}
local since_ms = now_ms - plan.silence_ms
for _, silent in ipairs(redis.call('ZRANGE', announced, '-inf', since_ms, 'BYSCORE')) do
  redis.call('HDEL', facts, silent)
  redis.call('ZREM', announced, silent)
end
redis.call('HSET', facts, plan.name, plan.said)
redis.call('ZADD', announced, now, plan.name)
return {'kept'}
