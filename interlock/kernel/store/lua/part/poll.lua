--@use clock entry exclusive effect_note timer budget drop metrics
-- Polls one due effect, by the state of its entry. Each function returns a status and its detail.
-- sweep = {waits, timers, metrics, gate_open, poll_ms, remind_ms, losses_max}
-- poll  = {id, suffix, member, record, log, chain, effects, jitter}
local POLL_MS_MAX = 900000

local function poll_again(poll, ms)
  redis.call('ZADD', poll.effects, ms, poll.member)
  return 'later', ''
end

local function poll_quarantined(_, poll)
  redis.call('ZREM', poll.effects, poll.member)
  return 'later', ''
end

local function poll_draining(sweep, poll, entry)
  if now_ms < entry.kill_by then
    return poll_again(poll, entry.kill_by)
  end
  -- The holder has not confirmed in time that its work has ended. The note says no more.
  local version = redis.call('HGET', poll.record, 'version')
  local fields = '"effect":"%s","success":false,"error":"unconfirmed"'
  write_effect_note(poll.log, version, entry.name .. '_finished', fields, poll.suffix)
  drop(poll, poll.suffix, entry, true)
  count(sweep.metrics, 'run', entry.name, 'lost')
  return 'gone', ''
end

local function quarantine(sweep, poll, entry, version)
  entry.state = 'quarantined'
  redis.call('ZREM', poll.effects, poll.member)
  redis.call('ZADD', sweep.waits, now, poll.id)
  set_timer(poll.record, sweep.timers, poll.id, 'quarantine', sweep.remind_ms, version, '0', false)
  local fields = '"effect":"%s","attempts":%d'
  write_effect_note(poll.log, version, 'quarantine', fields, poll.suffix, entry.attempts)
  return 'quarantined', ''
end

-- An effect of a paused record waits outside the index, once its last holder is surely dead.
local function poll_paused(poll, entry)
  if entry.state == 'lapsed' and now_ms < entry.kill_by then
    return poll_again(poll, entry.kill_by)
  end
  book_residue(poll.record, poll.chain, entry)
  entry.state = 'owed'
  entry.token = '-'
  redis.call('ZREM', poll.effects, poll.member)
  return 'later', ''
end

local function poll_claimable(sweep, poll, entry, stored, occupied, next_ms)
  if now_ms < entry.not_before then
    return poll_again(poll, entry.not_before)
  end
  if occupied then
    return poll_again(poll, math.max(occupied, now_ms + sweep.poll_ms))
  end
  local _, version, machine, priority, since = unpack(stored)
  if entry.attempts < entry.attempts_max then
    poll_again(poll, next_ms)
    return 'publish', table.concat({entry.name, machine, priority, since}, ' ')
  end
  if entry.fires_exhausted == 1 then
    poll_again(poll, next_ms)
    return 'exhausted', tostring(entry.attempts)
  end
  return quarantine(sweep, poll, entry, version)
end

-- Polls an effect that is owed or lapsed. Each poll doubles the time to the next one, so that a
-- backlog drains without a storm; a poll of an effect that waits for its place does not count.
local function poll_unheld(sweep, poll, entry)
  local record = poll.record
  local stored = redis.call('HMGET', record, 'paused', 'version', 'machine', 'priority', 'since')
  local occupied = entry.exclusive == 1 and occupied_until(record, poll.suffix, entry)
  if not occupied then
    entry.polls = entry.polls + 1
  end
  local delay_ms = math.min(sweep.poll_ms * 2 ^ math.min(entry.polls, 20), POLL_MS_MAX)
  local next_ms = math.floor(now_ms + delay_ms * poll.jitter)
  local status, detail
  if entry.no_restart == 1 then
    poll_again(poll, next_ms)
    status, detail = 'crash', entry.token
  elseif stored[1] == '1' then
    status, detail = poll_paused(poll, entry)
  else
    status, detail = poll_claimable(sweep, poll, entry, stored, occupied, next_ms)
  end
  write_entry(record, poll.suffix, entry)
  return status, detail
end

local function poll_leased(sweep, poll, entry)
  if now_ms < entry.lease_until then
    return poll_again(poll, entry.lease_until)
  end
  if not sweep.gate_open then
    return poll_again(poll, now_ms + sweep.poll_ms)
  end
  entry.state = 'lapsed'
  entry.losses = entry.losses + 1
  if entry.no_restart ~= 1 and entry.attempts_max > 1 and entry.losses <= sweep.losses_max then
    entry.attempts_max = entry.attempts_max + 1
  end
  count(sweep.metrics, 'run', entry.name, 'lost')
  local version, fields = redis.call('HGET', poll.record, 'version'), '"effect":"%s","token":"%s"'
  write_effect_note(poll.log, version, 'lapse', fields, poll.suffix, entry.token)
  return poll_unheld(sweep, poll, entry)
end

local POLLS = {
  owed = poll_unheld,
  leased = poll_leased,
  lapsed = poll_unheld,
  quarantined = poll_quarantined,
  draining = poll_draining,
}
