-- Sets a message aside that no process can ever act on, and counts it. The oldest are dropped; the counts are not.
-- KEYS  list, counts
-- ARGV  kind, entry, entries kept
-- Returns {how many of this kind}
redis.call('LPUSH', KEYS[1], ARGV[2])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[3]) - 1)
return {redis.call('HINCRBY', KEYS[2], ARGV[1], 1)}
