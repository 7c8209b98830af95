-- Costs of one machine, until pgrag.calibrate() measures those of this one.
insert into pgrag_data.search_cost (part, microseconds) values ('document', 2), ('vector', 1), ('block', 1500)
  on conflict on constraint search_cost_pkey do nothing;
