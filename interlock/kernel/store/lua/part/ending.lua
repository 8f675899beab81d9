--@use fields metrics new_effect
-- Ends a record. If others have subscribed to its end, it owes a notification of them, which the
-- caller publishes: nobody knows before whether there is one. Returns its suffix, or ''.
-- plan = {id, machine, root, nonce, effects, notification: the line of its entry, ...}
local function end_record(owner, plan, version, ended_index, subscribers)
  put(owner.fields, 'ended', '1')
  put(owner.fields, 'paused', '')
  note_end(owner.metrics, plan.machine)
  if plan.root then
    redis.call('ZADD', ended_index, now, plan.id)
  end
  if redis.call('EXISTS', subscribers) == 0 then
    return ''
  end
  local suffix = version .. '.' .. #plan.effects .. ':' .. plan.nonce
  put(owner.fields, 'e:' .. suffix, plan.notification)
  announce_effect(owner, suffix)
  return suffix
end
