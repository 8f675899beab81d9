-- Changes how the store keeps a record, in a partition that is marked as one whose format changes.
-- Nothing is changed if a field is not as it was read.
-- KEYS     meta, record, counters, timers, creation_index, search_index
-- ARGV     mark, fields..., members...
-- Returns  {status}: written | moved, since it was read | fenced
-- Each field is {name of its key, field, before, after}, each member {name of its key, member,
-- score}; false is none.
local keys = {
  record = record,
  counters = counters,
  timers = timers,
  creation_index = creation_index,
  search_index = search_index,
}

if redis.call('HGET', meta, 'format') ~= plan.mark then
  return {'fenced'}
end
for _, change in ipairs(plan.fields) do
  local key, field, before = unpack(change)
  if redis.call('HGET', keys[key], field) ~= before then
    return {'moved'}
  end
end
for _, change in ipairs(plan.fields) do
  local key, field, _, after = unpack(change)
  if after then
    redis.call('HSET', keys[key], field, after)
  else
    redis.call('HDEL', keys[key], field)
  end
end
for _, change in ipairs(plan.members) do
  local key, member, score = unpack(change)
  if score then
    redis.call('ZADD', keys[key], score, member)
  else
    redis.call('ZREM', keys[key], member)
  end
end
return {'written'}
