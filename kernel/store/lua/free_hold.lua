-- Frees a name of a family whose holder is not there, or has ended: whoever lives keeps what it holds.
-- KEYS  holds, record of the holder
-- ARGV  name, holder
-- Returns {word}: freed | moved | lives
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'moved'} end
local stands = redis.call('HMGET', KEYS[2], 'state', 'ended')
if stands[1] and stands[2] ~= '1' then return {'lives'} end
redis.call('HDEL', KEYS[1], ARGV[1])
return {'freed'}
