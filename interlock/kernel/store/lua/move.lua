--@use clock entry quarantine fields search_index log_hops metrics
-- Moves a record to another version of its table, or changes nothing: its state, and the effects
-- that it owes by it, get their present names, and its data those of the present schema. When it
-- entered its state, its timers, its question and the attempts of its effects stay as they are.
-- KEYS     record, log, effects, old_state_index, new_state_index, search_index, metrics, feed,
--          family_log...
-- ARGV     id, machine, version, state, schema, token, data*, feed_length, family_log_length,
--          retitle?, renames?, logged*..., events*...
-- Returns  {status, version}: moved | missing | conflict | busy, which is the effect of its state
--          at work under another token than `token`, with the name of the effect as the version
-- renames = {suffix = {name, name of the slots that it needs or '', once, fires_exhausted}}: what
-- the entries of these effects have from now on
local stored, source, since, paused = unpack(
  redis.call('HMGET', record, 'version', 'state', 'since', 'paused')
)
if not stored then
  return {'missing', '0'}
end
if stored ~= plan.version then
  return {'conflict', stored}
end
local entries = {}
for _, suffix in ipairs((entry_suffixes(record))) do
  local entry = read_entry(record, suffix)
  entries[suffix] = entry
  if entry.kind == 'state' and entry.state == 'leased' and entry.token ~= plan.token then
    return {'busy', entry.name}
  end
end

local version = string.format('%d', stored + 1)
local fields = {'version', version, 'state', plan.state, 'schema', plan.schema, 'data', plan.data}
for suffix, renamed in pairs(plan.renames or {}) do
  local entry = entries[suffix]
  entry.name = renamed.name
  entry.once = renamed.once and 1 or 0
  entry.fires_exhausted = renamed.fires_exhausted and 1 or 0
  write_entry(record, suffix, entry)
  redis.call('HDEL', record, 's:' .. suffix)
  if renamed.slots ~= '' then
    put(fields, 's:' .. suffix, renamed.slots)
  end
  if entry.state == 'owed' and not asks_person(entry) and paused ~= '1' then
    -- The message that it had names it as it was: a sweep sends another one.
    redis.call('ZADD', effects, now, plan.id .. ':' .. suffix)
  end
end
if plan.retitle then
  change_title(fields, search_index, plan.retitle)
end
if plan.state ~= source then
  redis.call('ZREM', old_state_index, plan.id)
  redis.call('ZADD', new_state_index, since, plan.id)
  count(metrics, 'transition', plan.machine, source, plan.state)
end
log_hops(plan, stored + 1, log, feed, family_log[1])
redis.call('HSET', record, unpack(fields))
return {'moved', version}
