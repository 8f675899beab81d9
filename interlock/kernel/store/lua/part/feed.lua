-- Adds a commit to the feed of its partition: which record came to which version, in the order of
-- commits. At least the newest `plan.feed_length` commits are kept.
local function add_to_feed(feed, plan, version)
  redis.call(
    'XADD', feed, 'MAXLEN', '~', plan.feed_length, '*', 'record', plan.id, 'machine', plan.machine,
    'version', version
  )
end
