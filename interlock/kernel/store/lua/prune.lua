--@use clock keys entry search_index
-- Prunes one ended record. A tombstone keeps its id taken for a while. The caller prunes whole
-- families, the lowest records first.
-- KEYS     record, counters, log, ops, times of ops, tombstone, children, index of its state, ended
--          index, creation index, search index, [holds, inbox, posts, times of posts, family log:
--          what the family shares], then subscribers, members and tallies
-- ARGV     id, how long ago it must have ended in ms, lifetime of the tombstone in ms, '1' if it is
--          the last of its family, so that what the family shares goes with it, its names in the
--          search index as JSON
-- Returns  {status}: pruned | missing | early | busy
local record = KEYS[1]
local tombstone = KEYS[6]
local state_index = KEYS[8]
local ended_index = KEYS[9]
local creation_index = KEYS[10]
local search_index = KEYS[11]
local id = ARGV[1]
local age_ms = tonumber(ARGV[2])
local tombstone_ms = ARGV[3]
local last = ARGV[4] == '1'
local names = cjson.decode(ARGV[5])
local shared_keys, next_key = keys_at(12, last and 5 or 0)

local ended, since, digest = unpack(redis.call('HMGET', record, 'ended', 'since', 'digest'))
if not digest then
  return {'missing'}
end
if ended ~= '1' or now_ms - tonumber(since) < age_ms then
  return {'early'}
end
if #entry_suffixes(record) > 0 then
  return {'busy'}
end
redis.call('SET', tombstone, digest, 'PX', tombstone_ms)
redis.call('ZREM', state_index, id)
redis.call('ZREM', ended_index, id)
redis.call('ZREM', creation_index, id)
remove_names(search_index, names)
redis.call('UNLINK', unpack(KEYS, 1, 5))
redis.call('UNLINK', KEYS[7])
for n = next_key, #KEYS do
  redis.call('UNLINK', KEYS[n])
end
if last then
  local holds, inbox, posts, post_times, family_log = unpack(shared_keys)
  -- Where a record holds a name by now, the family lives again.
  if redis.call('HLEN', holds) == 0 then
    redis.call('UNLINK', inbox, posts, post_times, family_log)
  end
end
return {'pruned'}
