--@use clock entry new_effect countdown
-- Takes a member that has ended, or was never born, out of its parent's countdown: the backstop of the commit that should have.
-- KEYS  parent, effects, members, tally, queue of the advance
-- ARGV  plan: {parent, member, outcome, nonce, look_ms}, message
-- Returns {advance}
local plan = cjson.decode(ARGV[1])
local parent = plan.parent
parent.record, parent.effects, parent.members, parent.tally = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
parent.nonce, parent.look_ms, parent.queue, parent.message = plan.nonce, plan.look_ms, KEYS[5], ARGV[2]
return {leave(parent, plan.member, plan.outcome)}
