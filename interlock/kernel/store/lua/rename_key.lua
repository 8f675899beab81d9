-- Gives a key another name, in a partition that is marked as one whose format changes. The items of
-- a stream may get other names for their fields, and keep their ids.
-- KEYS     meta, key, renamed
-- ARGV     mark, names...
-- Returns  {status}: written | missing | fenced
-- `names` are old and new names of fields, one after the other.
if redis.call('HGET', meta, 'format') ~= plan.mark then
  return {'fenced'}
end
if redis.call('EXISTS', key) == 0 then
  return {'missing'}
end
if #plan.names == 0 then
  redis.call('RENAME', key, renamed)
  return {'written'}
end
local name_after = {}
for n = 1, #plan.names, 2 do
  name_after[plan.names[n]] = plan.names[n + 1]
end
for _, item in ipairs(redis.call('XRANGE', key, '-', '+')) do
  local id, fields = unpack(item)
  for n = 1, #fields, 2 do
    fields[n] = name_after[fields[n]] or fields[n]
  end
  redis.call('XADD', renamed, id, unpack(fields))
end
redis.call('DEL', key)
return {'written'}
