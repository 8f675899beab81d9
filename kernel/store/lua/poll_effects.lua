--@use clock entry exclusive budget timer
-- Looks at due effects and moves each one's score in the same step, so that concurrent sweeps and poison members neither block nor storm.
-- KEYS  effects, waits, timers, then for each member its record, its log and its chain of counters
-- ARGV  plan: {members: [{id, suffix, jitter, chain}], look_ms, gate, server, remind_ms}
-- Returns {word, detail, ...} two words a member: publish (<effect> <machine> <priority> <since>) | crash | exhausted | quarantined | gone | later
local plan, answers = cjson.decode(ARGV[1]), {}
-- The gate was asked of one life of the server; for another it is closed until it is asked again.
if plan.gate and plan.server ~= '' then plan.gate = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') == plan.server end
local at = 3
for n, look in ipairs(plan.members) do
  local record, log, member, chain = KEYS[at + 1], KEYS[at + 2], look.id .. ':' .. look.suffix, {}
  for c = 1, look.chain do chain[c] = KEYS[at + 2 + c] end
  at = at + 2 + look.chain
  local word, detail, score = 'later', '', redis.call('ZSCORE', KEYS[1], member)
  local entry = entry_read(record, look.suffix)
  local function again(ms) redis.call('ZADD', KEYS[1], whole(ms), member) end
  local function gone() redis.call('ZREM', KEYS[1], member); word = 'gone' end
  if not score or tonumber(score) > now then word = 'taken'
  elseif not entry then gone()
  elseif entry.state == 'quarantined' then redis.call('ZREM', KEYS[1], member)
  elseif entry.state == 'draining' then
    if now < entry.kill_by then again(entry.kill_by)
    else
      -- Nobody confirmed in time that it has ended; the log says just that.
      unreserve(chain, entry, true)
      redis.call('HDEL', record, 'e:' .. look.suffix)
      redis.call('XADD', log, redis.call('HGET', record, 'version') .. '-*', 'note', entry.name .. '_finished', 'detail', '{"effect":"' .. look.suffix .. '","success":false,"error":"unconfirmed"}', 'at', now_text)
      gone(); wake_siblings(record, KEYS[1], look.id, entry)
    end
  elseif entry.state == 'leased' and now < entry.lease_until then again(entry.lease_until)
  elseif entry.state == 'leased' and not plan.gate then again(now + plan.look_ms)
  else
    local stands = redis.call('HMGET', record, 'paused', 'version', 'machine', 'priority', 'since')
    if entry.state == 'leased' then
      entry.state = 'lapsed'
      redis.call('XADD', log, stands[2] .. '-*', 'note', 'lapse', 'detail', '{"effect":"' .. look.suffix .. '","token":"' .. entry.token .. '"}', 'at', whole(now))
    end
    local taken = entry.exclusive == 1 and taken_until(record, look.suffix, entry)
    if not taken then entry.looks = entry.looks + 1 end
    local soon = now + (next_look(entry, plan.look_ms) - now) * look.jitter
    if entry.state == 'lapsed' and entry.carried == 1 then word, detail = 'crash', entry.token; again(soon)
    elseif stands[1] == '1' then
      if entry.state == 'lapsed' and now < entry.kill_by then again(entry.kill_by)
      else entry.state, entry.token = 'owed', ''; redis.call('ZREM', KEYS[1], member) end
    elseif now < entry.not_before then again(entry.not_before)
    elseif taken then again(math.max(taken, now + plan.look_ms))
    elseif entry.attempts < entry.attempts_max then word, detail = 'publish', table.concat({entry.name, stands[3], stands[4], stands[5]}, ' '); again(soon)
    elseif entry.kind == 'state' and entry.fires == 1 then word, detail = 'exhausted', whole(entry.attempts); again(soon)
    else
      word, entry.state = 'quarantined', 'quarantined'
      redis.call('ZREM', KEYS[1], member)
      redis.call('ZADD', KEYS[2], whole(now), look.id)
      set_timer(record, KEYS[3], look.id, 'quarantine', plan.remind_ms, stands[2], '0', false)
      redis.call('XADD', log, stands[2] .. '-*', 'note', 'quarantine', 'detail', '{"effect":"' .. look.suffix .. '","attempts":' .. entry.attempts .. '}', 'at', whole(now))
    end
    entry_write(record, look.suffix, entry)
  end
  answers[2 * n - 1], answers[2 * n] = word, detail
end
return answers
