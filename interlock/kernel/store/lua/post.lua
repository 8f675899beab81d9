--@use clock entry ops new_effect record_note
-- Posts mail to the inbox of a record, and creates the effect that reads it, unless such an effect
-- is owed and not claimed yet. A record that has ended gets no mail.
-- KEYS     record, log, posts, post_times, effects, inbox, message_queues...
-- ARGV     id, op_id, digest, mail*, detail*, length_max, read_up_to, effect_name, effect, nonce,
--          poll_ms, window_ms, messages*...
-- Returns  {status, id of the mail or a detail, '1' if an effect was created}; status: posted |
--          replayed | reused | missing | ended, in which state | full, of how many
local version, paused, ended, state = unpack(
  redis.call('HMGET', record, 'version', 'paused', 'ended', 'state')
)
if not version then
  return {'missing', '', ''}
end
local known, known_id = known_outcome(posts, plan.op_id, plan.digest)
if known then
  return {known, known_id, ''}
end
if ended == '1' then
  return {'ended', state, ''}
end
if redis.call('XLEN', inbox) >= plan.length_max then
  redis.call('XTRIM', inbox, 'MINID', plan.read_up_to)
  local length = redis.call('XLEN', inbox)
  if length >= plan.length_max then
    return {'full', tostring(length), ''}
  end
end

local waiting = false
for _, suffix in ipairs(entry_suffixes(record)) do
  local entry = read_entry(record, suffix)
  local owed = entry.name == plan.effect_name and entry.state == 'owed'
  waiting = waiting or owed and entry.not_before <= now_ms
end
local mail_id = redis.call('XADD', inbox, '*', 'mail', plan.mail)
write_note(log, version, 'mail', plan.detail)
if not waiting then
  local owner = {
    id = plan.id,
    record = record,
    effects = effects,
    paused = paused == '1',
    poll_ms = plan.poll_ms,
  }
  local suffix = version .. '.0:' .. plan.nonce
  create_effect(owner, suffix, plan.effect, message_queues[1], plan.messages[1])
end
record_outcome(posts, post_times, plan.op_id, plan.digest, mail_id, plan.window_ms)
return {'posted', mail_id, waiting and '' or '1'}
