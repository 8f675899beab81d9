--@use clock
-- Lists the publications for which a computer is asked now, and forgets older questions.
-- KEYS     asked, asked since
-- ARGV     ms for which a question counts
-- Returns  {name, ...}
local asked = KEYS[1]
local asked_since = KEYS[2]
local from_ms = now_ms - tonumber(ARGV[1])

for _, name in ipairs(redis.call('ZRANGE', asked, '-inf', from_ms, 'BYSCORE')) do
  redis.call('ZREM', asked, name)
  redis.call('ZREM', asked_since, name)
end
return redis.call('ZRANGE', asked, 0, -1)
