-- Keeps the key that signs links, unless there is one.
-- KEYS     link key
-- ARGV     a new key
-- Returns  {the key that is kept}
local link_key = KEYS[1]
local new = ARGV[1]

redis.call('SET', link_key, new, 'NX')
return {redis.call('GET', link_key)}
