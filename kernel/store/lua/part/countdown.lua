-- A set with a sentinel and a tally by outcome. Whoever empties it owes the parent one advance, in the same script.
-- parent = {id, record, effects, members, tally, name, generation, max, grace, nonce, look_ms, queue, message}
local function leave(parent, member, outcome)
  if redis.call('SREM', parent.members, member) == 0 then return '' end
  if outcome ~= '' then redis.call('HINCRBY', parent.tally, outcome, 1) end
  if redis.call('SCARD', parent.members) > 0 then return '' end
  local stands = redis.call('HMGET', parent.record, 'state', 'ended', 'paused')
  if not stands[1] or stands[2] == '1' then return '' end
  local suffix = parent.generation .. '.advance.' .. parent.name .. ':' .. parent.nonce
  owe(parent.record, parent.effects, parent.id, suffix, {name = parent.effect, kind = 'advance', max = parent.max, once = 0, grace = parent.grace,
    countdown = parent.name}, stands[3] == '1', parent.look_ms, parent.queue, parent.message)
  return suffix
end
