--@use new_effect
-- A countdown is the set of the members that a record waits for, with a tally of the states in
-- which they ended. As long as members may still join, the placeholder '*' is one of them, so that
-- the countdown does not end. The script that takes the last member out creates the advance of the
-- record in the same step.

-- Takes a member out. Returns the suffix of the advance that was created, or ''.
-- parent  = {id, countdown: its name, generation, advance: the entry of its new effect, nonce,
--            poll_ms}, as the plan has it
-- keys    = {record, members, tally} of the parent; `effects` is the index of its partition
-- outcome = the state in which the member ended, or '' for the placeholder
-- queue, message: of the advance, nil where the caller publishes it itself
local function leave_countdown(parent, keys, effects, member, outcome, queue, message)
  local record, members, tally = unpack(keys)
  if redis.call('SREM', members, member) == 0 then
    return ''
  end
  if outcome ~= '' then
    redis.call('HINCRBY', tally, outcome, 1)
  end
  if redis.call('SCARD', members) > 0 then
    return ''
  end
  local state, ended, paused = unpack(redis.call('HMGET', record, 'state', 'ended', 'paused'))
  if not state or ended == '1' then
    return ''
  end
  local owner = {
    id = parent.id,
    record = record,
    effects = effects,
    paused = paused == '1',
    poll_ms = parent.poll_ms,
  }
  local name = parent.countdown
  local suffix = parent.generation .. '.advance.' .. name .. ':' .. parent.nonce
  create_effect(owner, suffix, parent.advance, queue, message)
  return suffix
end
