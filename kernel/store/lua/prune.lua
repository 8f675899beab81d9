--@use clock entry
-- Forgets one ended record whose log is archived; a tombstone keeps its id taken. Its caller forgets whole families, leaves first.
-- KEYS  record, counters, log, ops, ops' times, tombstone, kids, in state, ended index, dependents, members and tallies...[, holds, inbox, posts, posts' times, chronicle]
-- ARGV  id, age ms, tombstone ms, '1': it is the last of its name, whose inbox goes with it unless somebody lives there by now
-- Returns {word}
local stands = redis.call('HMGET', KEYS[1], 'ended', 'since', 'birth')
if not stands[3] then return {'missing'} end
if stands[1] ~= '1' or now - tonumber(stands[2]) < tonumber(ARGV[2]) then return {'early'} end
if #entries_of(KEYS[1]) > 0 then return {'busy'} end
redis.call('SET', KEYS[6], stands[3], 'PX', ARGV[3])
redis.call('ZREM', KEYS[8], ARGV[1])
redis.call('ZREM', KEYS[9], ARGV[1])
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[7])
local last = #KEYS
if ARGV[4] == '1' then
  if redis.call('HLEN', KEYS[last - 4]) == 0 then redis.call('UNLINK', unpack(KEYS, last - 3)) end
  last = last - 5
end
for n = 10, last do redis.call('UNLINK', KEYS[n]) end
return {'pruned'}
