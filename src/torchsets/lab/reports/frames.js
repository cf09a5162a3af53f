// Draws the figures of kind "frames": panels that change with a slider. The data is described in
// lab/figures.py. Texts enter as text nodes only, so that nothing in a record is read as markup.
"use strict";
(() => {
  const SIDE = 220; // of the drawn area; the picture is scaled to the width of its panel
  const MOST_NUMBERS = 12; // a matrix with more columns has no room for its numbers

  const html = (parent, name, properties = {}) => {
    const element = Object.assign(document.createElement(name), properties);
    parent.append(element);
    return element;
  };
  const svg = (parent, name, attributes = {}, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) {
      element.setAttribute(key, typeof value === "number" ? Math.round(value * 100) / 100 : value);
    }
    element.textContent = text;
    parent.append(element);
    return element;
  };
  const at = (frames, index) => frames[Math.min(index, frames.length - 1)]; // one may be for all
  const scale = ([low, high], start, end) => (value) =>
    start + ((value - low) / (high - low || 1)) * (end - start);
  const ramp = (colours, share) =>
    colours[Math.round(Math.min(1, Math.max(0, share)) * (colours.length - 1))];
  const isLight = (colour) => {
    const part = (place) => parseInt(colour.slice(place, place + 2), 16);
    const [red, green, blue] = [1, 3, 5].map(part);
    return 0.3 * red + 0.59 * green + 0.11 * blue > 140;
  };
  const short = (value) => {
    if (value === null) return "";
    const text = Math.abs(value) < 10 ? value.toFixed(2) : value.toPrecision(3);
    return Number.isInteger(Number(text)) ? String(Number(text)) : text.replace(/^(-?)0\./, "$1.");
  };
  const ticks = ([low, high]) => {
    const power = 10 ** Math.floor(Math.log10((high - low || 1) / 3));
    const step = power * [1, 2, 5, 10].find((factor) => (high - low) / (factor * power) <= 4.01);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    const tick = (_, index) => Number(((first + index) * step).toPrecision(9));
    return Array.from({ length: count }, tick);
  };
  const known = (point) => !point.includes(null); // null stands for nan
  const extent = (values) =>
    values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];

  // Each kind draws into a group of SIDE by SIDE, with margins around it for what names the axes.
  const drawers = {
    points(group, panel, index) {
      const x = scale(panel.range, 0, SIDE);
      const y = scale(panel.range, SIDE, 0);
      const points = at(panel.points, index);
      const colour = (slot) => (panel.slot_colours || panel.palette)[panel.slot_colours ? slot : 0];
      const size = points.length > 20 ? 3 : 5;
      const shown = panel.values ? at(panel.values, index) : null;
      border(group);
      group = svg(group, "svg", { width: SIDE, height: SIDE }); // cuts off what lies outside
      for (const [a, b] of panel.targets ? at(panel.targets, index) : []) {
        svg(group, "circle", { cx: x(a), cy: y(b), r: 1.7 * size, class: "ring" });
      }
      points.forEach((point, slot) => {
        if (panel.trail && index > 0) {
          const way = panel.points.slice(0, index + 1).map((all) => all[slot]).filter(known);
          const path = way.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
          svg(group, "polyline", { points: path, stroke: colour(slot), class: "trail" });
        }
      });
      points.forEach((point, slot) => {
        if (!known(point)) return;
        const [a, b] = point;
        const opacity = shown ? shown[slot] : 1;
        svg(group, "circle", { cx: x(a), cy: y(b), r: size, fill: colour(slot), opacity });
      });
    },

    boxes(group, panel, index) {
      if (panel.picture) {
        const pixels = { matrices: [panel.picture], range: [0, 1], ramps: panel.ramps };
        drawers.matrix(group, pixels, 0);
      }
      border(group);
      const boxes = at(panel.boxes, index);
      const weights = at(panel.weights, index);
      const order = boxes.map((_, box) => box);
      const sure = (box) => Math.abs(weights[box] - 0.5);
      order.sort((a, b) => sure(a) - sure(b) || weights[a] - weights[b]); // the sure ones on top
      for (const box of order) {
        const [left, top, right, bottom] = boxes[box].map((value) => SIDE * value);
        const place = { x: left, y: top, width: right - left, height: bottom - top };
        const stroke = ramp(panel.ramps.weights, weights[box]);
        svg(group, "rect", { ...place, class: "outline" }); // pale boxes need it
        svg(group, "rect", { ...place, stroke, class: "box" });
        svg(group, "text", { x: left + 8, y: top + 9, class: "name" }, String(box + 1));
      }
    },

    matrix(group, panel, index) {
      const matrix = at(panel.matrices, index);
      const colours = panel.ramps[panel.colours || "grey"];
      const share = scale(panel.range, 0, 1);
      const width = SIDE / (matrix[0] || [0]).length;
      const height = SIDE / matrix.length;
      matrix.forEach((row, i) =>
        row.forEach((value, j) => {
          const fill = value === null ? "none" : ramp(colours, share(value));
          const place = { x: j * width, y: i * height, width, height, fill };
          // Lines between the cells of a matrix, none between the pixels of a picture.
          const edge = row.length <= MOST_NUMBERS ? { class: "cell" } : { stroke: fill };
          svg(group, "rect", { ...place, ...edge });
          if (value !== null && row.length <= MOST_NUMBERS) {
            const middle = { x: (j + 0.5) * width, y: (i + 0.5) * height, class: "number" };
            const ink = isLight(fill) ? "#000" : "#fff";
            const text = short(value);
            const size = Math.min(0.42, 1.5 / text.length) * width; // long numbers stay in their cell
            svg(group, "text", { ...middle, fill: ink, "font-size": size }, text);
          }
        }),
      );
      (panel.rows || []).forEach((name, i) =>
        svg(group, "text", { x: -4, y: (i + 0.5) * height, class: "name left" }, name),
      );
      (panel.columns || []).forEach((name, j) =>
        svg(group, "text", { x: (j + 0.5) * width, y: SIDE + 11, class: "name" }, name),
      );
    },

    bars(group, panel, index) {
      const bars = at(panel.bars, index);
      const y = scale(panel.range, SIDE, 0);
      const width = SIDE / bars.length;
      const zero = y(Math.min(Math.max(0, panel.range[0]), panel.range[1]));
      axis(group, panel.range, y);
      bars.forEach((value, place) => {
        const left = (place + 0.15) * width;
        const top = Math.min(zero, y(value));
        const height = Math.abs(zero - y(value));
        svg(group, "rect", { x: left, y: top, width: 0.7 * width, height, fill: panel.palette[0] });
        const name = panel.names ? panel.names[place] : place + 1;
        svg(group, "text", { x: (place + 0.5) * width, y: SIDE + 11, class: "name" }, name);
      });
      (panel.marks ? at(panel.marks, index) : []).forEach((value, place) => {
        const ends = { x1: place * width, x2: (place + 1) * width, y1: y(value), y2: y(value) };
        svg(group, "line", { ...ends, class: "mark" });
      });
    },

    lines(group, panel, index, slider) {
      const range = extent(panel.lines.flatMap((line) => line.y.filter((value) => value !== null)));
      const across = extent(slider.values);
      const x = scale(across, 0, SIDE);
      const y = scale(range, SIDE, 0);
      axis(group, range, y);
      for (const tick of ticks(across)) {
        svg(group, "text", { x: x(tick), y: SIDE + 11, class: "name" }, String(tick));
      }
      const cursor = x(slider.values[index]);
      svg(group, "line", { x1: cursor, x2: cursor, y1: 0, y2: SIDE, class: "cursor" });
      panel.lines.forEach((line, rank) => {
        const stroke = panel.palette[rank % panel.palette.length];
        const way = line.x.map((a, place) => [a, line.y[place]]).filter(known);
        const path = way.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
        svg(group, "polyline", { points: path, stroke, class: "line" });
        const place = line.x.indexOf(slider.values[index]);
        if (place >= 0 && line.y[place] !== null) {
          svg(group, "circle", { cx: cursor, cy: y(line.y[place]), r: 4, fill: stroke });
        }
      });
    },
  };

  function border(group) {
    svg(group, "rect", { width: SIDE, height: SIDE, class: "border" });
  }

  function axis(group, range, y) {
    for (const tick of ticks(range)) {
      svg(group, "line", { x1: 0, x2: SIDE, y1: y(tick), y2: y(tick), class: "grid" });
      svg(group, "text", { x: -4, y: y(tick), class: "name left" }, String(tick));
    }
    border(group);
  }

  // What the widest names need, so that the squares of all panels are of one size.
  function margins(panels) {
    const named = (panel) => panel.kind === "bars" || panel.kind === "lines";
    const left = (panel) => (named(panel) || panel.rows ? 30 : 4) + (panel.y_label ? 14 : 0);
    const bottom = (panel) => (named(panel) || panel.columns ? 16 : 4) + (panel.x_label ? 16 : 0);
    return { left: Math.max(...panels.map(left)), bottom: Math.max(...panels.map(bottom)) };
  }

  function preparePanel(parent, panel, { left, bottom }) {
    const place = html(parent, "div", { className: "panel" });
    html(place, "div", { className: "title", textContent: panel.title || "" });
    const picture = svg(place, "svg", {
      viewBox: `${-left} -4 ${SIDE + left + 8} ${SIDE + bottom + 4}`,
      role: "img",
      "aria-label": panel.title || panel.kind,
    });
    const group = svg(picture, "g");
    if (panel.x_label) {
      const label = { x: SIDE / 2, y: SIDE + bottom - 8, class: "name" };
      svg(picture, "text", label, panel.x_label);
    }
    if (panel.y_label) {
      const turn = `translate(${8 - left} ${SIDE / 2}) rotate(-90)`;
      svg(picture, "text", { transform: turn, class: "name" }, panel.y_label);
    }
    const labels = html(place, "div", { className: "labels" });
    (panel.lines || []).forEach((line, rank) => {
      if (!line.label) return;
      const label = html(labels, "div", { textContent: line.label });
      label.style.color = panel.palette[rank % panel.palette.length];
    });
    return group;
  }

  function prepareControls(parent, slider, number) {
    const controls = html(parent, "div", { className: "controls" });
    const last = slider.values.length - 1;
    const play = html(controls, "button", { type: "button", textContent: "Play" });
    const label = html(controls, "label", { textContent: slider.label });
    const range = { type: "range", min: 0, max: last, step: 1, autocomplete: "off" };
    const input = html(controls, "input", { ...range, id: `slider-${number}` });
    label.htmlFor = input.id;
    const output = html(controls, "output");
    output.setAttribute("for", input.id);
    let timer = null;
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    };
    const advance = () => {
      const shown = Number(input.value);
      input.value = shown < last ? shown + 1 : 0;
      input.dispatchEvent(new Event("input"));
      if (Number(input.value) === last) stop();
    };
    play.addEventListener("click", () => {
      if (timer !== null) return stop();
      play.textContent = "Pause";
      timer = setInterval(advance, Math.min(700, Math.max(60, 6000 / (last + 1))));
      advance();
    });
    for (const name of ["pointerdown", "keydown"]) input.addEventListener(name, stop);
    if (last === 0) controls.remove(); // there is nowhere to move to
    return { input, output };
  }

  function build(place, number) {
    const data = JSON.parse(place.querySelector("script").textContent);
    const { slider, palette, ramps } = data;
    const moving = document.createElement("div");
    const { input, output } = prepareControls(moving, slider, number);
    const said = html(moving, "p", { className: "said", hidden: !data.texts });
    const parent = html(moving, "div", { className: "panels" });
    const around = margins(data.panels);
    parent.classList.toggle("small", data.panels.every((panel) => panel.kind === "points"));
    const panels = data.panels.map((panel) => {
      const shown = { ...panel, palette, ramps };
      return [preparePanel(parent, shown, around), shown];
    });
    const show = () => {
      const index = Number(input.value);
      output.textContent = `${slider.values[index]}${slider.unit || ""}`;
      said.textContent = data.texts ? data.texts[index] : "";
      input.setAttribute("aria-valuetext", `${output.textContent}. ${said.textContent}`.trim());
      for (const [group, panel] of panels) {
        group.replaceChildren();
        drawers[panel.kind](group, panel, index, slider);
      }
    };
    input.addEventListener("input", show);
    input.value = data.start || 0;
    show();
    place.replaceChildren(moving); // only now: if anything fails, the still picture stays
  }

  document.querySelectorAll(".frames").forEach((place, number) => {
    try {
      build(place, number);
    } catch (error) {
      console.error(error); // the others still move
    }
  });
})();
