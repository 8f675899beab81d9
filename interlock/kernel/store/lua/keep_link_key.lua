-- Keeps the key that signs links, unless there is one.
-- KEYS     link_key
-- ARGV     new
-- Returns  {the key that is kept}
redis.call('SET', link_key, plan.new, 'NX')
return {redis.call('GET', link_key)}
