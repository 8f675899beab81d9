--@use clock
-- Reads what an index says to look at now. It changes nothing: polling decides, member by member.
-- KEYS  effects or timers
-- ARGV  limit
-- Returns {ms, member...}
return {whole(now), unpack(redis.call('ZRANGE', KEYS[1], '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, ARGV[1]))}
