/** Nobody waits for an answer where no keeper stands. */
export const withdrawn = `
update request set answer = '{"decision":"withdrawn","reason":"The agent that asked is gone"}', answered_at = opened_at, answered_by = 'daemon'
where answer is null and session_id in (select id from session where not json_extract(standing, '$.keeper'));
`
