--@use clock
-- Lists what computers or processes say of themselves, but for those that have been silent for too
-- long.
-- KEYS     facts, announced
-- ARGV     silence_ms
-- Returns  {name, what it said, name, ...}
local found = {}
local since_ms = now_ms - plan.silence_ms
for _, name in ipairs(redis.call('ZRANGE', announced, '(' .. since_ms, '+inf', 'BYSCORE')) do
  found[#found + 1] = name
  found[#found + 1] = redis.call('HGET', facts, name)
end
return found
