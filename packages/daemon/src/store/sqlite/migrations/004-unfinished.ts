/** A prompt is delivered until a turn that took it up has ended, and done from then on; a session knows how often in a row
 *  it crashed. */
export const unfinished = `
update prompt set state = 'done' where state = 'delivered';
create index prompt_unfinished on prompt (session_id) where state = 'delivered';
update session set standing = json_set(standing, '$.handed', json('false'), '$.onCrash', 'wait', '$.crashes', 0);
create index session_crashed on session (id) where json_extract(standing, '$.crashes') > 0;
`
