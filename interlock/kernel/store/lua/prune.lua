--@use clock entry search_index
-- Prunes one ended record. A tombstone keeps its id taken for a while. The caller prunes whole
-- families, the lowest records first.
-- KEYS     record, tombstone, state_index, ended_index, creation_index, search_index, own...,
--          shared...
-- ARGV     id, age_ms, tombstone_ms, names...
-- Returns  {status}: pruned | missing | early | busy
-- It must have ended `age_ms` ago; its tombstone lives for `tombstone_ms`. `names` are those in the
-- search index. `own` are all other keys of the record, and `shared`, of the last one of a family,
-- what the family shares: holds, inbox, posts, times of posts, family log.
local ended, since, digest = unpack(redis.call('HMGET', record, 'ended', 'since', 'digest'))
if not digest then
  return {'missing'}
end
if ended ~= '1' or now_ms - tonumber(since) < plan.age_ms then
  return {'early'}
end
if #entry_suffixes(record) > 0 then
  return {'busy'}
end
redis.call('SET', tombstone, digest, 'PX', plan.tombstone_ms)
redis.call('ZREM', state_index, plan.id)
redis.call('ZREM', ended_index, plan.id)
redis.call('ZREM', creation_index, plan.id)
remove_names(search_index, plan.names)
redis.call('UNLINK', record)
for _, key in ipairs(own) do
  redis.call('UNLINK', key)
end
local holds, inbox, posts, post_times, family_log = unpack(shared)
-- Where a record holds a name by now, the family lives again.
if holds and redis.call('HLEN', holds) == 0 then
  redis.call('UNLINK', inbox, posts, post_times, family_log)
end
return {'pruned'}
