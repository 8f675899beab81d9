--@use deltas timer search_index
-- Restores one record from its log where it does not exist: its place in the indexes, its sums in
-- the tree. A repeat changes nothing. While a family is restored its root holds a name: no record
-- below is restored without it, and none is created that needs it.
-- KEYS     record, tombstone, log, timers, state_index, ended_index, holds, inbox, parent,
--          creation_index, search_index, chain...
-- ARGV     id, machine, state, version, entered, schema, since, created, priority, digest, title,
--          names..., ends?, timers..., sums, hold, holder, read_up_to, data*, lines*...
-- Returns  {status}: restored | present | taken | pruned | leftovers | held | closed
-- Each line of the log is four values: position, 'event' or the kind of a note, text, ms.
local is_root = #chain == 1

local digest, version, state, stored_data = unpack(
  redis.call('HMGET', record, 'digest', 'version', 'state', 'data')
)
local is_restored_now = redis.call('HGET', holds, plan.hold) == plan.holder
if digest then
  local same = version == plan.version and state == plan.state and stored_data == plan.data
  -- A root may have changed since an attempt that was interrupted, because it takes mail.
  same = same or is_root and is_restored_now
  return {same and digest == plan.digest and 'present' or 'taken'}
end
if redis.call('EXISTS', tombstone) == 1 then
  return {'pruned'}
end
if redis.call('EXISTS', log, chain[1]) > 0 then
  return {'leftovers'}
end
if is_root then
  if redis.call('HLEN', holds) > 0 then
    return {'held'}
  end
  redis.call('HSET', holds, plan.hold, plan.holder)
elseif not is_restored_now or redis.call('EXISTS', parent) == 0 then
  return {'closed'}
end

redis.call(
  'HSET', record, 'machine', plan.machine, 'state', plan.state, 'version', plan.version,
  'entered', plan.entered, 'schema', plan.schema, 'since', plan.since, 'created', plan.created,
  'priority', plan.priority, 'digest', plan.digest, 'last_token', '0', 'countdown', '',
  'waits', '', 'title', plan.title, 'data', plan.data
)
for n = 1, #plan.lines, 4 do
  local position, kind, text, at_ms = unpack(plan.lines, n, n + 3)
  if kind == 'event' then
    redis.call('XADD', log, position, 'event', text, 'at', at_ms)
  else
    redis.call('XADD', log, position, 'note', kind, 'detail', text, 'at', at_ms)
  end
end
redis.call('ZADD', state_index, plan.since, plan.id)
redis.call('ZADD', creation_index, plan.created, plan.id)
add_names(search_index, plan.names)
if plan.ends then
  redis.call('HSET', record, 'ended', '1', 'paused', '')
  redis.call('ZADD', ended_index, plan.since, plan.id)
end
local owner = {id = plan.id, fields = {}, timers = timers, created = plan.created}
set_timers(owner, plan.timers, plan.entered)
if #owner.fields > 0 then
  redis.call('HSET', record, unpack(owner.fields))
end
add_deltas(chain, plan.sums)
-- New mail must come after what was read before, even where the clock of this server is behind.
-- A stream keeps its newest position when the message there is deleted.
if plan.read_up_to ~= '' and redis.call('EXISTS', inbox) == 0 then
  redis.call('XADD', inbox, plan.read_up_to, 'mail', '{}')
  redis.call('XDEL', inbox, plan.read_up_to)
end
return {'restored'}
