-- Lets members into a countdown of a record while its sentinel is in. A repeat adds nobody twice; who left comes in again and leaves again.
-- KEYS  record, members
-- ARGV  members...
-- Returns {word}: joined | closed
if redis.call('HGET', KEYS[1], 'ended') == '1' or redis.call('SISMEMBER', KEYS[2], '*') == 0 then return {'closed'} end
redis.call('SADD', KEYS[2], unpack(ARGV))
return {'joined'}
