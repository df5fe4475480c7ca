/** Search covers more kinds of events than it did: those that are stored already are gone through once, a step at a time. */
export const search = `
create table search_backfill (next integer not null, until integer not null);
insert into search_backfill select 0, coalesce((select max(id) from event_text_content), 0);
`
