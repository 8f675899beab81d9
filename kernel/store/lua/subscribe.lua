-- Puts somebody on the list of those who are told of a record's end, or says that it has ended: either the end sees the list, or this sees the end.
-- KEYS  record, its dependents
-- ARGV  who is to be told
-- Returns {word, state}: kept | ended | missing
local stands = redis.call('HMGET', KEYS[1], 'ended', 'state')
if not stands[2] then return {'missing', ''} end
if stands[1] == '1' then return {'ended', stands[2]} end
redis.call('SADD', KEYS[2], ARGV[1])
return {'kept', stands[2]}
