--@use clock feed family_log
-- Writes the transitions of one commit, each with a version of its own, the first of which is
-- `version`: their events into the log, and that they happened into the feed and the family log.
-- plan = {events, logged: what the line of the last event has in addition, ...}
local function log_hops(plan, version, log, feed, family_log)
  for n, event in ipairs(plan.events) do
    local at = string.format('%d', version + n - 1)
    local logged = n == #plan.events and plan.logged or {}
    redis.call('XADD', log, at .. '-0', 'event', event, 'at', now, unpack(logged))
    add_to_feed(feed, plan, at)
    add_to_family_log(family_log, plan.family_log_length, plan.id, at)
  end
end
